"""Pages of the audit: their HTML from suites and outcomes, the index of all reports, and pictures without a network."""
