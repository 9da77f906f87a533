KEYS=()
class OutboundMapping: pass
def compile_outbound(*a): raise RuntimeError
