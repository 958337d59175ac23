"""Telemetry: traces and metrics, exported as OpenTelemetry's environment variables ask."""
