"""What happens in a cluster without anybody asking: owners and dependents, replica sets, stateful sets, deployments."""
