"""The bundled tasks: small Python packages, and one defect per task."""
