"""A stand-in for flash_attn: what OpenRLHF imports of it, in plain torch."""
