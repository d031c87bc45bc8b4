"""What real agents do, one module per question."""
