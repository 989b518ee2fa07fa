"""Several processes as one service: what to do when (`policy`), and the processes themselves (`processes`)."""
