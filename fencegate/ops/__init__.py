"""What operators see. So far: the log, one JSON line for each event."""
