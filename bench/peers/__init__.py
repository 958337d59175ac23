"""The service that teams write by hand, in two ways; neither answers exactly once."""
