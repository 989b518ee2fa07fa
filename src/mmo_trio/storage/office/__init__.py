"""What a store keeps for the people who run the gateway: operators, sessions, proposals, the audit log, what they look
for and what was counted. One protocol, kept by SQL on SQLite and PostgreSQL alike, and by a store in memory."""
