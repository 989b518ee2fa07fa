<?php
// file_get_contents with an HTTP stream context, and PHP's built-in server.
require 'php_receiver.inc';

function ask(string $path, ?string $body): array
{
    $headers = ['X-Api-Key: ' . getenv('API_KEY')];
    $options = ['method' => 'GET', 'ignore_errors' => true];
    if ($body !== null) {
        $headers[] = 'Content-Type: application/json';
        $options = ['method' => 'POST', 'content' => $body] + $options;
    }
    $context = stream_context_create(['http' => $options + ['header' => $headers]]);
    $answer = file_get_contents(getenv('API_URL') . '/gateway/mmo/v2' . $path, false, $context);
    return [(int) explode(' ', $http_response_header[0])[1], json_decode($answer)];
}

listen(__FILE__);
[$created, $payment] = ask('/direct/payin/mpesa_ke', getenv('BODY'));
report($created, fn() => ask("/status/{$payment->gatewayReference}", null)[1]);
