"""The curve families of the literature, one module each, with one interface: `fit` gives something that predicts."""
