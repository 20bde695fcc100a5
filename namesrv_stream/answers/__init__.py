"""What is said of a registry: typed answers about a snapshot, its past and the job, and sentences of the history."""
