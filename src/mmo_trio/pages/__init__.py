"""What people see and what a sandbox can be told: Quart-Trio under Hypercorn, on a listener of its own."""
