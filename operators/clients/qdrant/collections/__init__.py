"""Collections as they are: capabilities, analysers, and counts of terms and documents."""
