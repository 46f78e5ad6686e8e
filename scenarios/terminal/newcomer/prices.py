def total(price, quantity):
    return price * quantity
