"""AMD GPUs: devices, machine code, launches. Imported only where a tensor or a kind asks for one.

None of it has run on hardware yet: tests run it against real compilers and a stand-in for the driver.
"""
