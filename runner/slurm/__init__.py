"""A sweep as a chain of Slurm jobs: the text of the job, and how it is handed to Slurm."""
