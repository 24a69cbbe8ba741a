"""What a job runs, fixed by digest: code, environment, the light rooms, a shipped function."""
