"""The wire: models, CRDs, the codec between stored strings and core values."""
