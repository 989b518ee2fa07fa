<?php
// A receiver of result callbacks, with nothing but PHP 8.1: checks the key, keeps each result once, answers.
//
// Put it behind your web server's HTTPS, with two environment variables: `API_KEY`, your key (while you change keys:
// the old and the new one, with a space between), and `RESULTS`, a directory that only this script writes to, outside
// of what the web server serves. To try it on your own machine:
//
//     API_KEY=... RESULTS=results php -S 127.0.0.1:9080 callback_receiver.php
//
// Each result becomes a file `<gatewayReference>.json`; the file is what makes a repeat a repeat.

declare(strict_types=1);

const BODY_BYTES_MAX = 1024 * 1024; // more than any transaction object has
const ULID = '/\A[0-7][0-9A-HJKMNP-TV-Z]{25}\z/';

/** Whether this is one of our keys; takes as long whichever character is wrong. */
function is_ours(string $given): bool
{
    $found = false;
    foreach (preg_split('/\s+/', (string) getenv('API_KEY'), -1, PREG_SPLIT_NO_EMPTY) as $key) {
        $found = hash_equals(hash('sha256', $key), hash('sha256', $given)) || $found;
    }
    return $found;
}

/** The transaction object in this body, or null when it isn't one. */
function transaction_in(string $body): ?array
{
    $found = json_decode($body, true, 64);
    $reference = is_array($found) ? ($found['gatewayReference'] ?? null) : null;
    return is_string($reference) && preg_match(ULID, $reference) === 1 ? $found : null;
}

/**
 * Store the result, whole or not at all; false when it was there already. `link` is the judge: of two that come at
 * once, one makes the name and the other finds it taken. The body is kept as it came: json_decode reads amounts as
 * binary floats, so take amounts from the text with a decimal library.
 */
function keep(string $body, string $reference): bool
{
    $directory = getenv('RESULTS') ?: throw new RuntimeException('Set RESULTS to a directory.');
    $kept = "$directory/$reference.json";
    $draft = "$directory/" . bin2hex(random_bytes(16)) . '.new';
    $file = fopen($draft, 'xb') ?: throw new RuntimeException("Cannot write in $directory.");
    try {
        if (fwrite($file, $body) !== strlen($body) || !fsync($file)) {
            throw new RuntimeException("Cannot write $draft.");
        }
        if (@link($draft, $kept)) {
            return true;
        }
        if (file_exists($kept)) {
            return false;
        }
        throw new RuntimeException("Cannot make $kept.");
    } finally {
        fclose($file);
        unlink($draft);
    }
}

/** The key first; then the body is worth reading; then keep it; then answer. */
function receive(): int
{
    if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
        return 405;
    }
    if (!is_ours($_SERVER['HTTP_X_API_KEY'] ?? '')) {
        return 401;
    }
    $body = (string) file_get_contents('php://input', length: BODY_BYTES_MAX + 1);
    $transaction = strlen($body) > BODY_BYTES_MAX ? null : transaction_in($body);
    if ($transaction === null) {
        return 400;
    }
    $word = keep($body, $transaction['gatewayReference']) ? 'result' : 'repeat';
    error_log("$word {$transaction['gatewayReference']} {$transaction['status']}");
    // From here on the result is yours: do the work that follows from it elsewhere, not before the answer.
    return 204;
}

try {
    http_response_code(receive());
} catch (Throwable $fault) {
    error_log($fault->getMessage());
    http_response_code(500);
}
