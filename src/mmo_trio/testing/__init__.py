"""A simulated world for whole gateways: networks, clocks, processes and stores that a seed decides."""
