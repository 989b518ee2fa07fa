-- Called inside a commit that creates payments, with the earliest time of their creation: readers of records wait for its
-- end from now on, and nothing may be created at or below the horizon (R7). Its second statement sees what was committed
-- before the lock was taken, also where the call is part of a statement that began earlier.
CREATE FUNCTION check_creation(earliest bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(5066063, 1);
    IF (SELECT at <= earliest FROM horizon) IS NOT TRUE THEN
        RAISE EXCEPTION 'what was decided from has changed' USING ERRCODE = 'MMO01';
    END IF;
END
$$;
