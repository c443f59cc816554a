"""The kernels of the low level as text: what a plan's expressions, filters, selections and aggregations become."""
