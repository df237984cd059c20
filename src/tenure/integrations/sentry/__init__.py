"""Sentry: errors, traces of jobs, and monitors of schedules. It needs sentry-sdk 2."""

from tenure.integrations.sentry.integration import TenureIntegration, instrument

__all__ = ["TenureIntegration", "instrument"]
