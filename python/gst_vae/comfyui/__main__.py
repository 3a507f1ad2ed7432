"""Installs the nodes: one folder, whose file imports them from this package."""
import os
import sys

NODES = """from gst_vae.comfyui.nodes import NODE_CLASS_MAPPINGS, NODE_DISPLAY_NAME_MAPPINGS
__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
"""


def main(arguments):
    """Returns what the program prints, or an error."""
    if len(arguments) != 1:
        return "usage: python3 -m gst_vae.comfyui PATH-OF-COMFYUI"
    nodes = os.path.join(arguments[0], "custom_nodes")
    if not os.path.isdir(nodes):
        return (f"{arguments[0]}: has no folder custom_nodes, expected the folder of "
                "ComfyUI")
    folder = os.path.join(nodes, "gst-vae")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "__init__.py"), "w", encoding="utf-8") as file:
            file.write(NODES)
    except OSError as error:
        return f"{folder}: {error.strerror}"
    print(f"{folder}: installed; start ComfyUI again with {sys.executable}")
    here = os.path.dirname(os.path.abspath(__file__))
    print(f"example: {os.path.join(here, 'workflow.json')}")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
