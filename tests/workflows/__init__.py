"""What GitHub and GitLab read: workflows, the action, the jobs of docs/ci.md."""
