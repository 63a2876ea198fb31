def local_frobenius(step, chunk, memory):
    return None
