<?php
// The curl extension in its default settings, and PHP's built-in server.
require 'php_receiver.inc';

function ask(string $path, ?string $body): array
{
    $curl = curl_init(getenv('API_URL') . '/gateway/mmo/v2' . $path);
    $headers = ['X-Api-Key: ' . getenv('API_KEY')];
    curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
    if ($body !== null) {
        $headers[] = 'Content-Type: application/json';
        curl_setopt($curl, CURLOPT_POSTFIELDS, $body);
    }
    curl_setopt($curl, CURLOPT_HTTPHEADER, $headers);
    $answer = curl_exec($curl);
    if ($answer === false) {
        exit(curl_error($curl));
    }
    return [curl_getinfo($curl, CURLINFO_RESPONSE_CODE), json_decode($answer)];
}

listen(__FILE__);
[$created, $payment] = ask('/direct/payin/mpesa_ke', getenv('BODY'));
report($created, fn() => ask("/status/{$payment->gatewayReference}", null)[1]);
