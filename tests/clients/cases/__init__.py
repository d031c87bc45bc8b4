"""Cases with real agents, one module per topic."""
