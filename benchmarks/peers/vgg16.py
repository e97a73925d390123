"""VGG-16's parameters, as element counts in the order of the network."""
CONVOLUTIONS = (64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512)
DENSE = ((25088, 4096), (4096, 4096), (4096, 1000))


def vgg16():
    """The sizes of the weights and the biases of each layer."""
    counts, before = [], 3
    for filters in CONVOLUTIONS:
        counts += [before * filters * 9, filters]
        before = filters
    for ins, outs in DENSE:
        counts += [ins * outs, outs]
    return counts
