"""The HTTP/1.1 server of the merchant API accepts connections, reads requests and answers them."""
