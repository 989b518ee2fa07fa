"""Values that everything else is built from: time, money, the payment model and error codes."""
