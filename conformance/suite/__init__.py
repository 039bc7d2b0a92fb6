"""Library behind run.py and record.py: payloads, wires, steps, comparison."""
