"""SGLang engines and the router in front of them.

`EnginePool` is what the driver holds: it starts the servers, replaces dead ones and gives all of them new weights.
Episodes reach the engines through the router; control calls go to each engine directly.
"""
