"""What stands around retrieval: who may ask and see what, what was answered already, pages, and the keyword syntax."""
