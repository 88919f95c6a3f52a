"""A release: images in a registry, the chart, the wheel, the kubectl plugin, and notes, all of one version."""
