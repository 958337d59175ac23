"""Models in this process, run by onnxruntime."""
