"""Read the history of brokers and topics: events, sessions, stories, views for analysts, plots, the churn report."""
