"""What a step costs and where the GPU-hours went: pure arithmetic, imports nothing of ours."""
