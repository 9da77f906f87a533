"""What operators do and are told: pausing, alerts, retention and archive. No patient data."""
