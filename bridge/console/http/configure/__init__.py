"""Routes about connections and definitions, and what proves them."""
