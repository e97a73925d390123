"""The sizes of ResNet-50's parameters, at any scale."""


def resnet50():
    """The number of elements of each parameter, in order."""
    counts = []

    def convolution(inputs, outputs, kernel):
        counts.extend((inputs * outputs * kernel * kernel, outputs, outputs))  # with scale and shift behind it

    convolution(3, 64, 7)
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for _ in range(blocks):
            convolution(inputs, width, 1)
            convolution(width, width, 3)
            convolution(width, 4 * width, 1)
            if inputs != 4 * width:
                convolution(inputs, 4 * width, 1)
                inputs = 4 * width
    return [*counts, inputs * 1000, 1000]


def in_proportion(count, parts):
    """Scales `parts` to whole numbers of at least 1 whose sum is `count`; the largest takes what rounding leaves."""
    scaled = [max(1, count * part // sum(parts)) for part in parts]
    scaled[scaled.index(max(scaled))] += count - sum(scaled)
    return scaled
