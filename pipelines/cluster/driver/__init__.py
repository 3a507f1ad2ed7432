"""What only decode.py and encode.py need: the driver of a Ray cluster."""
