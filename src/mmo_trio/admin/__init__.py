"""What staff do, whichever way they come: explain a payment, resolve it, leave an audit event."""
