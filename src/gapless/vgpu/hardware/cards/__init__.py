"""The cards that can be modelled: data sheets, card files, fitted constants."""
