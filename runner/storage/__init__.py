"""Where a sweep keeps what must outlive the machines that it runs on."""
