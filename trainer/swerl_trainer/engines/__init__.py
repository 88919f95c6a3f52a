"""SGLang engines and the router in front of them.

`EnginePool` starts the servers, replaces dead ones and updates the weights of all of them. Episodes reach the engines
through the router; control calls go to each engine directly.
"""
