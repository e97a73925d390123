"""Files like CIFAR-10's, for those who have not got them."""
import random

SIZE = 3 * 32 * 32


def write_cifar10(folder, images):
    """Writes random images, this many in each file, in the format of CIFAR-10's binary version."""
    folder.mkdir()
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        of_pixels = random.Random(1)
        (folder / name).write_bytes(b"".join(bytes([i % 10]) + of_pixels.randbytes(SIZE) for i in range(images)))
