"""What is known of GPUs, from recorded facts of machines."""
