"""What rai keeps: run folders, their index, and the settings."""
