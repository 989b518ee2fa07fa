<?php
// A receiver of result callbacks in plain PHP 8.1: it checks the key and stores each result once.
//
// Put it behind your web server's HTTPS, with two environment variables: `API_KEY`, your key (while
// you change keys: the old and the new one, separated by a space), and `RESULTS`, a directory that only
// this script writes to and that the web server does not serve. To try it on your own machine:
//
//     API_KEY=... RESULTS=results php -S 127.0.0.1:9080 callback_receiver.php
//
// It stores each result as a file `<gatewayReference>.json`, and recognises a repeated callback by
// that file. A QR code that is sent to the same URL is stored as `<gatewayReference>.qr.json`.

declare(strict_types=1);

const BODY_BYTES_MAX = 1024 * 1024; // transaction objects are smaller
const ULID = '/\A[0-7][0-9A-HJKMNP-TV-Z]{25}\z/';

/** Whether a received key is one of ours, in constant time. */
function is_ours(string $received): bool
{
    $found = false;
    foreach (preg_split('/\s+/', (string) getenv('API_KEY'), -1, PREG_SPLIT_NO_EMPTY) as $key) {
        $found = hash_equals(hash('sha256', $key), hash('sha256', $received)) || $found;
    }
    return $found;
}

/**
 * The result or the QR code in a body, or null. A payment by QR code has both, under one
 * gatewayReference; only the result has a status.
 */
function content_of(string $body): ?array
{
    $found = json_decode($body, true, 64);
    $reference = is_array($found) ? ($found['gatewayReference'] ?? null) : null;
    if (!is_string($reference) || preg_match(ULID, $reference) !== 1) {
        return null;
    }
    $is_known = array_key_exists('status', $found)
        ? in_array($found['status'], ['success', 'failed'], true)
        : array_key_exists('qrImage', $found);
    return $is_known ? $found : null;
}

/**
 * Store a body completely or not at all; return false if it was stored before. Of two callbacks at
 * the same time, `link` succeeds for only one. The body is stored unchanged: json_decode reads amounts
 * as binary floats, so read amounts from the text with a decimal library.
 */
function store(string $body, string $name): bool
{
    $directory = getenv('RESULTS') ?: throw new RuntimeException('Set RESULTS to a directory.');
    $stored = "$directory/$name";
    $draft = "$directory/" . bin2hex(random_bytes(16)) . '.new';
    $file = fopen($draft, 'xb') ?: throw new RuntimeException("Cannot write in $directory.");
    try {
        if (fwrite($file, $body) !== strlen($body) || !fsync($file)) {
            throw new RuntimeException("Cannot write $draft.");
        }
        if (@link($draft, $stored)) {
            return true;
        }
        if (file_exists($stored)) {
            return false;
        }
        throw new RuntimeException("Cannot create $stored.");
    } finally {
        fclose($file);
        unlink($draft);
    }
}

/** Check the key, read the body, store it, then answer. */
function receive(): int
{
    if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
        return 405;
    }
    if (!is_ours($_SERVER['HTTP_X_API_KEY'] ?? '')) {
        return 401;
    }
    $body = (string) file_get_contents('php://input', length: BODY_BYTES_MAX + 1);
    $content = strlen($body) > BODY_BYTES_MAX ? null : content_of($body);
    if ($content === null) {
        return 400;
    }
    $is_result = isset($content['status']);
    $is_new = store($body, $content['gatewayReference'] . ($is_result ? '.json' : '.qr.json'));
    $word = !$is_new ? 'repeat' : ($is_result ? 'result' : 'code');
    error_log("$word {$content['gatewayReference']} " . ($content['status'] ?? ''));
    // The result is stored: do your own work with it in another place, not before the answer.
    return 204;
}

try {
    http_response_code(receive());
} catch (Throwable $fault) {
    error_log($fault->getMessage());
    http_response_code(500);
}
