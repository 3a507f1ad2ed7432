"""Nodes for ComfyUI. python3 -m gst_vae.comfyui PATH-OF-COMFYUI installs them."""
